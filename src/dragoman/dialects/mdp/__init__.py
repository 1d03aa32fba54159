"""MDP, the Majordomo Protocol 0.1 and 0.2, with MMI and Titanic. See README.md."""
