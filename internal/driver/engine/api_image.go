package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/moby/client"
)

// loadAPI hands the image to the engine and sees that it has the same bits.
func (e *engine) loadAPI(ctx context.Context, c *client.Client, s source) (string, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.archive(w)) }()
	defer r.Close()
	result, err := c.ImageLoad(ctx, r, client.ImageLoadWithQuiet(true))
	if err == nil {
		err = errors.Join(said(result), result.Close())
	}
	if err != nil {
		return "", fmt.Errorf("load the image into %s: %w", e.flavor.name, err)
	}
	have, err := c.ImageInspect(ctx, s.tag.Name())
	if err != nil {
		return "", fmt.Errorf("find the image that was loaded into %s: %w", e.flavor.name, err)
	}
	var layers []v1.Hash
	for _, text := range have.RootFS.Layers {
		layer, err := v1.NewHash(text)
		if err != nil {
			return "", fmt.Errorf("image in %s: %w", e.flavor.name, err)
		}
		layers = append(layers, layer)
	}
	if !slices.Equal(layers, s.diffs) {
		return "", fmt.Errorf("%s has an image of the layers %v, and it was given %v", e.flavor.name, layers, s.diffs)
	}
	// An engine that keeps images in containerd's store calls them by their
	// manifest's digest; its manifest it has made itself.
	byManifest := have.Descriptor != nil && have.ID == have.Descriptor.Digest.String()
	id, err := v1.NewHash(withAlgorithm(have.ID))
	if err != nil || (id != s.config && !byManifest) {
		return "", fmt.Errorf("%s calls the image %s, and its configuration has the digest %s", e.flavor.name, have.ID, s.config)
	}
	return have.ID, nil
}

func withAlgorithm(id string) string {
	if len(id) == 64 {
		return "sha256:" + id
	}
	return id
}

// said reads what an engine tells while it loads: JSON messages, of which one
// may be an error.
func said(from io.Reader) error {
	for d := json.NewDecoder(from); ; {
		var message struct {
			Error string `json:"error"`
		}
		err := d.Decode(&message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && message.Error != "" {
			err = errors.New(message.Error)
		}
		if err != nil {
			return err
		}
	}
}
