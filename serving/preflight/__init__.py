"""What a deploy would do to what is live: two snapshots, compared purely (docs/adr/0022)."""
