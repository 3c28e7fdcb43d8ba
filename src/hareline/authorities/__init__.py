"""Authorities beside this broker that say who a user is: OAuth 2, an HTTP service, LDAP."""
