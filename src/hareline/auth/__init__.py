"""Who may connect and what they may touch: users, passwords, mechanisms, permissions."""
