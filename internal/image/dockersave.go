package image

import (
	"encoding/json"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// load is one image of the manifest.json that docker save writes and docker load reads:
// where its configuration and its layers lie, and how it is called.
type load struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func loadOf(img v1.Image, tag string) (load, error) {
	config, err := img.ConfigName()
	if err != nil {
		return load{}, err
	}
	l := load{RepoTags: []string{tag}}
	if l.Config, err = blobPath(config); err != nil {
		return load{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return load{}, err
	}
	for _, one := range layers {
		h, err := one.Digest()
		if err != nil {
			return load{}, err
		}
		file, err := blobPath(h)
		if err != nil {
			return load{}, err
		}
		l.Layers = append(l.Layers, file)
	}
	return l, nil
}

func writeLoads(file string, loads []load) error {
	data, err := json.Marshal(loads)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
