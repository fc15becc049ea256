"""The testing kit: for the tests of Slackwater, and for users' own."""
