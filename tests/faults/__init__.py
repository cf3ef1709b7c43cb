"""The live processes in a simulated world: every fault happens on purpose, and every failure replays from its seed.

simulated     the event loop, the network, the server and the processes
plan          a seed becomes a list of steps: faults, and what users do
step          one thing that happens
trouble       what goes wrong with requests, machines and networks
documents     the objects that users write
world         what there is at the start
users         carries out the steps
meetings      what happens just before or after a write
checkers      invariants, after every write and at the end
run           one plan, from the start of its world to the verdict
shrink        the fewest steps that still fail
mistakes      those that worlds must notice
"""
