"""The pipeline written down for Kubeflow Pipelines and Vertex AI."""
