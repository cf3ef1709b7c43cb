"""The command `stromboli up`: a cluster in one process.

command        options
cluster        the parts, started and stopped in order
machines       which nodes there are
definitions    installs the definitions of our kinds
real_server    kube-apiserver and etcd instead of the embedded server
observer       what happens, from watches
screen         what happens, for people
demo           a workload that shows the features
"""
