"""Pictures of a computation graph: drawn whole (`drawing`), or step by step with a slider (`stepping`)."""
