"""Whether a role's policies allow a call: IAM's rules, asked before the services of the local stack."""
