"""The runtime map: traced, kept under `.ktx/affected/`, read again only for files that are as they were."""
