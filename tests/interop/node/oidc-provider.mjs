// An OpenID Connect provider on the loopback: node oidc-provider.mjs
//
// Prints its issuer as one JSON line. Anyone logs in with any password; the accounts below have
// groups. The client `dashboard` is public and proves itself by PKCE; the clients in ROBOTS get JWT
// access tokens with their own credentials.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const GROUPS = { anna: ['netops', 'staff'], vera: ['staff'], robot: ['workers'], idler: [] };
const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });

function robot(id) {
  return {
    client_id: id,
    client_secret: `${id}-password-of-the-tests`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
  };
}

function resource(audience, seconds) {
  return { scope: 'api', audience, accessTokenFormat: 'jwt', accessTokenTTL: seconds, jwt: { sign: { alg: 'RS256' } } };
}

const RESOURCES = {
  'urn:dragoman': resource('dragoman', 600),
  'urn:dragoman:short': resource('dragoman', 2),
  'urn:other': resource('other', 600),
};

const configuration = {
  jwks: { keys: [{ ...key, use: 'sig', alg: 'RS256', kid: 'first' }] },
  cookies: { keys: ['a cookie key of the tests'] },
  clients: [
    {
      client_id: 'dashboard',
      token_endpoint_auth_method: 'none',
      application_type: 'native', // its redirects may use any port of the loopback
      grant_types: ['authorization_code'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1/login/corp/callback'],
    },
    robot('robot'),
    robot('idler'),
  ],
  claims: { openid: ['sub'], groups: ['groups'] },
  scopes: ['openid', 'groups'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: GROUPS[id] ?? [] }) }),
  extraTokenClaims: (_, token) => ({ groups: GROUPS[token.clientId] ?? [] }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_, indicator) => RESOURCES[indicator],
    },
  },
};

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, configuration);
  server.on('request', provider.callback());
  console.log(JSON.stringify({ issuer }));
});
process.stdin.resume().on('end', () => process.exit(0)); // it ends with the test
