package vmm

func stratovirts(string) []VMM { return nil }
