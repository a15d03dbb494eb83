"""The kinds of et-operator, and etcompile's own scale intents, which are written like them."""
