package lab

import (
	"context"
	"fmt"
)

// keepBootLogs puts what targets' machines told of a boot into the run, so that
// its report needs nothing else.
func keepBootLogs(ctx context.Context, p *Plan) error {
	for name, d := range p.drivers {
		host := d.Properties().ContainerHost()
		if host == nil {
			continue
		}
		told, err := host.BootLog(ctx)
		if err == nil && len(told.Log) > 0 {
			err = p.Run.KeepBootLog(name, told.Log)
		}
		if err == nil && len(told.Symbols) > 0 {
			err = p.Run.KeepBootSymbols(name, told.Symbols)
		}
		if err != nil {
			return fmt.Errorf("target %s: %w", name, err)
		}
	}
	return nil
}
