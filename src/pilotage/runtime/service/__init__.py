"""Starting runs, bringing them back, reading and answering them: behind `AgentRuns`."""
