"""Everything that is said: Commands users give, Reports workers make, Orders we give back, Events that are decided on.

Owns: the vocabulary, as frozen values. Commands and orders are imperative, reports are past tense.
Refuses to know: how they are encoded (`wire`), and what is decided about them (`decide`).
"""
