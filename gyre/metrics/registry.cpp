// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/registry.hpp>

#include <stdexcept>

namespace gyre::metrics {
namespace {

template <class Instrument, class... Arguments>
Instrument& find_or_make(detail::registry_core& core, std::string_view name, std::string_view help,
                         const Arguments&... arguments) {
  using single = detail::single_instrument<Instrument>;
  const auto make = [&] {
    return std::make_unique<single>(std::string(name), std::string(help), arguments...);
  };
  return core.find_or_add<single>(name, {}, make).value;
}

template <class Instrument>
family<Instrument>& find_or_make_family(detail::registry_core& core, std::string_view name,
                                        std::string_view help,
                                        const std::vector<std::string>& labels,
                                        family_options options,
                                        const detail::prototype<Instrument>& prototype) {
  if (labels.empty()) {
    throw std::invalid_argument("gyre::metrics::registry: the family '" + std::string(name) +
                                "' has no labels");
  }
  const auto make = [&] {
    return std::make_unique<family<Instrument>>(std::string(name), std::string(help), labels,
                                                options, prototype, core.refused_series());
  };
  return core.find_or_add<family<Instrument>>(name, labels, make);
}

}  // namespace

registry::registry() : core_(std::make_shared<detail::registry_core>()) {}
registry::~registry() = default;

counter& registry::make_counter(std::string_view name, std::string_view help) {
  return find_or_make<counter>(*core_, name, help);
}

gauge& registry::make_gauge(std::string_view name, std::string_view help) {
  return find_or_make<gauge>(*core_, name, help);
}

duration_histogram& registry::make_duration_histogram(std::string_view name, std::string_view help,
                                                      std::span<const duration> limits) {
  return find_or_make<duration_histogram>(*core_, name, help, limits);
}

size_histogram& registry::make_size_histogram(std::string_view name, std::string_view help,
                                              std::span<const std::uint64_t> limits) {
  return find_or_make<size_histogram>(*core_, name, help, limits);
}

family<counter>& registry::make_counters(std::string_view name, std::string_view help,
                                         std::vector<std::string> labels, family_options options) {
  return find_or_make_family<counter>(*core_, name, help, labels, options,
                                      [] { return std::make_unique<counter>(); });
}

family<gauge>& registry::make_gauges(std::string_view name, std::string_view help,
                                     std::vector<std::string> labels, family_options options) {
  return find_or_make_family<gauge>(*core_, name, help, labels, options,
                                    [] { return std::make_unique<gauge>(); });
}

family<duration_histogram>& registry::make_duration_histograms(std::string_view name,
                                                               std::string_view help,
                                                               std::vector<std::string> labels,
                                                               std::span<const duration> limits,
                                                               family_options options) {
  static_cast<void>(duration_histogram(limits));  // the constructor refuses wrong limits
  return find_or_make_family<duration_histogram>(
      *core_, name, help, labels, options,
      [own_limits = std::vector<duration>(limits.begin(), limits.end())] {
        return std::make_unique<duration_histogram>(own_limits);
      });
}

family<size_histogram>& registry::make_size_histograms(std::string_view name, std::string_view help,
                                                       std::vector<std::string> labels,
                                                       std::span<const std::uint64_t> limits,
                                                       family_options options) {
  static_cast<void>(size_histogram(limits));  // the constructor refuses wrong limits
  return find_or_make_family<size_histogram>(
      *core_, name, help, labels, options,
      [own_limits = std::vector<std::uint64_t>(limits.begin(), limits.end())] {
        return std::make_unique<size_histogram>(own_limits);
      });
}

registration registry::add_function(move_only_function<void(exposition&)> write) {
  if (!write)
    throw std::invalid_argument("gyre::metrics::registry: add_function() needs a function");
  return add_source({.name = {},
                     .type = typeid(void),
                     .owner = nullptr,
                     .self = nullptr,
                     .write = std::move(write)});
}

task<exposition> registry::collect(exposition_format format, duration limit) const {
  return detail::registry_core::collect(core_, format, limit);
}

registration registry::add_source(detail::source_settings settings) {
  return {core_, core_->add(std::move(settings))};
}

}  // namespace gyre::metrics
