"""How well a snapshot answers: golden questions, measures, the comparison of two releases (SPEC 10.1, 10.2).

Belongs here: what is expected, how a ranking is judged, and when a release counts as worse. Does not belong here: ranking,
and deciding which release is current (see `serving`).
"""
