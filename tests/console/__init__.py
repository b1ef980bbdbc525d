"""The console against a fake bridge on a real control socket."""
