package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folder is where the running cluster is known.
type folder string

func (f folder) state() string      { return filepath.Join(string(f), "state.json") }
func (f folder) log() string        { return filepath.Join(string(f), "log") }
func (f folder) kubeconfig() string { return filepath.Join(string(f), "kubeconfig") }

// state is what is known of a cluster that is starting or up.
type state struct {
	PID   int    `json:"pid"`
	Data  string `json:"data"`  // the cluster's own folder
	Ready bool   `json:"ready"` // whether all is up
	Node  string `json:"node"`  // empty: none
	Image string `json:"image"` // the agent's image on the node; empty: none
	Note  string `json:"note"`  // why there is no node or no image
}

// lock takes the folder for the process that serves the cluster, which holds
// it as long as it lives. It gives nil when another process has it.
func (f folder) lock() (*os.File, error) {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(string(f), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", errors.Join(err, file.Close()))
	}
	return file, nil
}

// read gives the state, or none where there is no cluster.
func (f folder) read() (state, error) {
	var s state
	text, err := os.ReadFile(f.state())
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("read the cluster's state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("read the cluster's state: %w", err)
	}
	return s, nil
}

// write replaces the state at once, so that no reader sees half of it.
func (f folder) write(s state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	temporary := f.state() + ".tmp"
	if err := os.WriteFile(temporary, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	if err := os.Rename(temporary, f.state()); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}
