"""Users, passwords, mechanisms and permissions: who may connect, and their rights."""
