package main

import "context"

func (s *stand) switches(ctx context.Context) error { return nil }
