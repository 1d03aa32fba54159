"""The content of MDP bodies: frames, which the protocol leaves open. See `dialects.parts`."""

from dragoman.dialects import parts
from dragoman.dialects.mdp.wire import NAME
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call


class MdpBodyCodec:
    """Converts content to MDP bodies and back."""

    name = NAME

    def read_call(self, body: Body) -> Call:
        """Decode a request."""
        return parts.read_call(body.parts)

    def write_call(self, call: Call) -> Body:
        """Encode a request."""
        return Body(NAME, parts.call_parts(call))

    def read_answer(self, body: Body) -> Answer:
        """Decode a result."""
        return parts.read_answer(body.parts)

    def write_answer(self, answer: Answer) -> Body:
        """Encode a result."""
        return Body(NAME, parts.answer_parts(answer))
