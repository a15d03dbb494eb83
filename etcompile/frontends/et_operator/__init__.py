"""Read the kinds of et-operator, and etcompile's scale intents, which have the same form."""
