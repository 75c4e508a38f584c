"""Every fault in every stage of a job on a Ray cluster elsewhere: what it costs, what it breaks."""
