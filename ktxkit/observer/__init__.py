"""The observer: scans, manifests, activity that is proven, two clocks."""
