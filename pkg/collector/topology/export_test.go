package topology

// WithPageSize returns c asking for that many nodes at once.
func (c Collector) WithPageSize(n int64) Collector {
	c.pageSize = n
	return c
}
