package k8s

// WithPageSize returns c asking for that many objects at once.
func (c Collector) WithPageSize(n int64) Collector {
	c.pageSize = n
	return c
}
