"""Who is let in and what they may do: TLS, SASL, ACLs, the audit log."""
