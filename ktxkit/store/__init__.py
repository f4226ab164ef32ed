"""`.ktx/`: its layout, jobs, leases, owners, journals and the trace."""
