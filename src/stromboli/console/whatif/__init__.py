"""What would happen: questions that are answered by trying, on a copy of the cluster.

target           the objects that make up a job
changes          what could be different: the job itself, its queue, the nodes, the jobs in its way
counterfactuals  which changes are tried for a waiting job, and which of them start it
submission       what happens if a job is submitted
page_answers     the same for the page
"""
