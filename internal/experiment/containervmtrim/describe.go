package containervmtrim

import "github.com/tarelab/tare/internal/kerneltools/bootstudy"

// description is a run's boots next to the published ones.
type description struct {
	*bootstudy.Description
	Citation string `json:"citation"`
	// Trims: the control boots what a distribution ships, as the published one's
	// before does; without it, nothing published is next to this.
	Trims  bool              `json:"trims"`
	Phases []bootstudy.Phase `json:"phases"` // as published

	published *bootstudy.Published
}

// publishedAs are the published results by the stretches that repeat them.
var publishedAs = map[string]string{"kernel up": "kernel", "initrd": "initrd", "modules": "modules", "total": "total"}

// describe puts boots next to the published ones.
func describe(boots *bootstudy.Description, p *bootstudy.Published) *description {
	c := &description{Description: boots, Citation: p.Citation, published: p}
	c.Trims = boots.Whole == bootstudy.FirstContainer && len(boots.Parts) > 0 && boots.Parts[0].Initrd > 0
	if !c.Trims {
		return c
	}
	for i := range c.Spans {
		s := &c.Spans[i]
		if r, ok := p.Results[publishedAs[s.Name]]; ok {
			s.Before, s.After = r.Before, r.After
		}
	}
	for _, ph := range p.Phases {
		c.Phases = append(c.Phases, bootstudy.Phase{Name: ph.What + " (lines " + ph.Lines + ")", Seconds: ph.Seconds})
	}
	return c
}
