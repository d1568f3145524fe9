"""The local stack's page: one small static application and the document, in JSON, that feeds it."""
