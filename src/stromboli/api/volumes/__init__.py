"""What claims, volumes and classes say: `pod_volumes` (what a pod needs), `claims` (what a claim says about itself),
`topology` (which nodes a volume can be reached from, or made for) and `provisioning` (pretended provisioners).
"""
