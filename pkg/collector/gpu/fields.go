package gpu

// kind tells how a printed value reads.
type kind int

const (
	asText kind = iota
	// asNumber: a number, followed by the field's unit.
	asNumber
	// asBool: Yes or No, or True or False.
	asBool
)

// field is a reading and where nvidia-smi prints it.
type field struct {
	key  string
	kind kind
	unit string
	// paths lists, separated by blanks, where versions of the DTD have it.
	// The first that tells a value counts.
	paths string
}

// smiFields is what is told of the driver, and of the first GPU under the
// names of nvidia-smi's elements.
var smiFields = [...]field{
	{"driver-version", asText, "", "driver_version"},
	{"cuda-version", asText, "", "cuda_version"},
	{KeyCount, asNumber, "", "attached_gpus"},
}

var firstGPUFields = [...]field{
	{"gpu.product-name", asText, "", "product_name"},
	{"gpu.product-brand", asText, "", "product_brand"},
	{"gpu.product-architecture", asText, "", "product_architecture"},
	{"gpu.display-mode", asText, "", "display_mode"},
	{"gpu.persistence-mode", asText, "", "persistence_mode"},
	{"gpu.addressing-mode", asText, "", "addressing_mode"},
	{"gpu.mig-mode", asText, "", "mig_mode/current_mig"},
	{"gpu.ecc-mode", asText, "", "ecc_mode/current_ecc"},
	{"gpu.compute-mode", asText, "", "compute_mode"},
	{"gpu.vbios-version", asText, "", "vbios_version"},
	{"gpu.gsp-firmware-version", asText, "", "gsp_firmware_version"},
	{"gpu.memory-total-mib", asNumber, "MiB", "fb_memory_usage/total"},
}

// deviceFields is what is told of each GPU: what it is and how it is set up,
// and whether it is sound. No temperatures, loads and counters of events.
var deviceFields = [...]field{
	{"uuid", asText, "", "uuid"},
	{"product", asText, "", "product_name"},
	{"architecture", asText, "", "product_architecture"},
	{"vbios", asText, "", "vbios_version"},
	{"gsp-firmware", asText, "", "gsp_firmware_version"},
	{"memory-total-mib", asNumber, "MiB", "fb_memory_usage/total"},
	{"bar1-total-mib", asNumber, "MiB", "bar1_memory_usage/total"},
	{"ecc-mode", asText, "", "ecc_mode/current_ecc"},
	{"ecc-mode-pending", asText, "", "ecc_mode/pending_ecc"},
	{keyMIGMode, asText, "", "mig_mode/current_mig"},
	{"mig-mode-pending", asText, "", "mig_mode/pending_mig"},
	{"persistence-mode", asText, "", "persistence_mode"},
	{"compute-mode", asText, "", "compute_mode"},
	{"addressing-mode", asText, "", "addressing_mode"},
	{"virtualization-mode", asText, "", "gpu_virtualization_mode/virtualization_mode"},
	{"c2c-mode", asText, "", "c2c_mode"},

	// Drivers before 530 speak of power_readings.
	{"power.limit-w", asNumber, "W", "gpu_power_readings/current_power_limit power_readings/power_limit"},
	{"power.limit-default-w", asNumber, "W", "gpu_power_readings/default_power_limit power_readings/default_power_limit"},
	{"power.limit-min-w", asNumber, "W", "gpu_power_readings/min_power_limit power_readings/min_power_limit"},
	{"power.limit-max-w", asNumber, "W", "gpu_power_readings/max_power_limit power_readings/max_power_limit"},
	// A module is a Grace Hopper or Grace Blackwell superchip.
	{"power.module-limit-w", asNumber, "W", "module_power_readings/current_power_limit"},
	{"power.module-limit-default-w", asNumber, "W", "module_power_readings/default_power_limit"},
	{"power.module-limit-min-w", asNumber, "W", "module_power_readings/min_power_limit"},
	{"power.module-limit-max-w", asNumber, "W", "module_power_readings/max_power_limit"},

	{"clock.graphics-max-mhz", asNumber, "MHz", "max_clocks/graphics_clock"},
	{"clock.sm-max-mhz", asNumber, "MHz", "max_clocks/sm_clock"},
	{"clock.memory-max-mhz", asNumber, "MHz", "max_clocks/mem_clock"},
	{"clock.video-max-mhz", asNumber, "MHz", "max_clocks/video_clock"},
	{"clock.graphics-boost-max-mhz", asNumber, "MHz", "max_customer_boost_clocks/graphics_clock"},
	{"clock.graphics-application-mhz", asNumber, "MHz", "applications_clocks/graphics_clock"},
	{"clock.memory-application-mhz", asNumber, "MHz", "applications_clocks/mem_clock"},

	{"pcie.generation", asNumber, "", "pci/pci_gpu_link_info/pcie_gen/current_link_gen"},
	{"pcie.generation-max", asNumber, "", "pci/pci_gpu_link_info/pcie_gen/max_link_gen"},
	{"pcie.width", asNumber, "x", "pci/pci_gpu_link_info/link_widths/current_link_width"},
	{"pcie.width-max", asNumber, "x", "pci/pci_gpu_link_info/link_widths/max_link_width"},

	{"fabric.state", asText, "", "fabric/state"},
	{"fabric.status", asText, "", "fabric/status"},
	{"fabric.clique-id", asNumber, "", "fabric/cliqueId"},
	{"fabric.cluster-uuid", asText, "", "fabric/clusterUuid"},
	{"fabric.health", asText, "", "fabric/health/summary"},
	{"fabric.bandwidth", asText, "", "fabric/health/bandwidth"},
	{"fabric.route-recovery", asBool, "", "fabric/health/route_recovery_in_progress"},
	{"fabric.route-unhealthy", asBool, "", "fabric/health/route_unhealthy"},
	{"fabric.access-timeout-recovery", asBool, "", "fabric/health/access_timeout_recovery"},
	{"fabric.incorrect-configuration", asText, "", "fabric/health/incorrect_configuration"},

	{"health.remapped-rows-correctable", asNumber, "", "remapped_rows/remapped_row_corr"},
	{"health.remapped-rows-uncorrectable", asNumber, "", "remapped_rows/remapped_row_unc"},
	{"health.remapped-rows-pending", asBool, "", "remapped_rows/remapped_row_pending"},
	{"health.remapped-rows-failure", asBool, "", "remapped_rows/remapped_row_failure"},
	{"health.retired-pages-single-bit", asNumber, "", "retired_pages/multiple_single_bit_retirement/retired_count"},
	{"health.retired-pages-double-bit", asNumber, "", "retired_pages/double_bit_retirement/retired_count"},
	{"health.retired-pages-pending", asBool, "", "retired_pages/pending_retirement retired_pages/pending_blacklist"},
	{"health.sram-threshold-exceeded", asBool, "", "ecc_errors/aggregate/sram_threshold_exceeded"},
	{"health.channel-repair-pending", asBool, "", "ecc_errors/channel_repair_pending"},
	{"health.tpc-repair-pending", asBool, "", "ecc_errors/tpc_repair_pending"},
	{"health.unrepairable-memory", asBool, "", "ecc_errors/unrepairable_memory"},
	{"health.reset-required", asBool, "", "gpu_reset_status/reset_required"},
	{"health.recovery-action", asText, "", "gpu_recovery_action"},
}

// migFields is what is told of each MIG instance of a GPU.
var migFields = [...]field{
	{"index", asNumber, "", "index"},
	{"gpu-instance-id", asNumber, "", "gpu_instance_id"},
	{"compute-instance-id", asNumber, "", "compute_instance_id"},
	{"uuid", asText, "", "uuid"},
	{"multiprocessors", asNumber, "", "device_attributes/shared/multiprocessor_count"},
	{"copy-engines", asNumber, "", "device_attributes/shared/copy_engine_count"},
	{"memory-total-mib", asNumber, "MiB", "fb_memory_usage/total"},
}
