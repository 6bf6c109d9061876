"""`regroup soak`: does anything grow while a cluster regroups again and again, and does it live through chaos?

Owns: a thousand regroups, most of them because somebody was killed, with the cluster's footprint after each (`flat`
says what is not flat), and then minutes of faults that overlap as chance has it. The audit has the last word on both.
Refuses to know: why something grows, and how the cluster recovers.
"""
