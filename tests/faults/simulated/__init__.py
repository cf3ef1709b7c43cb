"""Everything that is real on a cluster, in one thread and in virtual time.

loop          an event loop in virtual time, which can kill and freeze the processes in it
guard         what a run may not use: real clocks, threads, sockets and random numbers
network       connections in memory, byte by byte
server        the embedded API server's handlers and store behind these connections
rules         faults of single requests: which are armed, and what they hit
processes     two replicas each of scheduler, controllers and descheduler, and the hollow kubelets
history       what happened, for people and for comparisons
"""
