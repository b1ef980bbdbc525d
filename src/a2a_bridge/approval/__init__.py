"""Whether a call may run: the policy decides, the queue asks a person, grants remember what was answered."""
