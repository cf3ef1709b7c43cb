"""A program of this machine in a sandbox: its own processes, its own view of the files, its own name.

This package runs as a process of its own for each container, so it imports nothing but the standard library, and is
started without the packages that are installed.

main            what the process does: reads what to run, makes the sandbox, supervises
namespaces      the calls to the kernel that make a sandbox
file_view       folders and files where the program expects them
program         one program: started with its limits, its output with times
supervisor      the first process of a sandbox: obeys commands, and leaves nothing behind
"""
