//go:build !linux

package main

import (
	"context"
	"errors"
)

type folder string

var errNotLinux = errors.New("a development cluster needs Linux")

func up(context.Context, folder) error    { return errNotLinux }
func down(context.Context, folder) error  { return errNotLinux }
func serve(context.Context, folder) error { return errNotLinux }
