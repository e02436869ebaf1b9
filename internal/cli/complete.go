package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
)

// complete says what a flag's value is completed with. The flag is defined just
// before: an error is a mistake in this package, which its tests meet at once.
func complete(c *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err)
	}
}

// completeStudies offers the built-in studies, or a file.
func (env *Env) completeStudies(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return env.Experiments.StudyNames(), cobra.ShellCompDirectiveDefault
}

// completeTargets offers the targets' names for the last one of a list.
func (env *Env) completeTargets(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	var names []string
	for _, d := range env.Drivers(driver.Lab{}) {
		names = append(names, before+d.Name())
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
