// SPDX-License-Identifier: Apache-2.0
#include <gyre/metrics/detail/registry_core.hpp>

#include <gyre/metrics/detail/collection.hpp>
#include <gyre/metrics/detail/reading.hpp>
#include <gyre/metrics/label.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/with_timeout.hpp>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::metrics::detail {

std::uint64_t registry_core::add(source_settings settings) {
  executor* const related = settings.owner != nullptr ? settings.owner : settings.self;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, each] : sources_) {
    if (!settings.name.empty() && each->name() == settings.name && each->type() == settings.type) {
      throw std::invalid_argument("gyre::metrics::registry: two objects of one type are named '" +
                                  settings.name + "'");
    }
  }
  std::shared_ptr<watched_executor> watched;
  if (related != nullptr) {
    const auto match = std::ranges::find_if(
        executors_, [related](const auto& each) { return each->is(*related); });
    watched = match != executors_.end() ? *match : std::make_shared<watched_executor>(*related);
    if (match == executors_.end()) executors_.push_back(watched);
  }
  auto added = std::make_shared<source>(std::move(settings), watched);
  sources_.emplace(++last_id_, std::move(added));
  if (watched != nullptr) watched->add_object();
  return last_id_;
}

void registry_core::remove(std::uint64_t number) noexcept {
  std::shared_ptr<source> removed;
  {
    const std::lock_guard lock(mutex_);
    const auto match = sources_.find(number);
    if (match == sources_.end()) return;
    removed = std::move(match->second);
    sources_.erase(match);
    if (const auto& watched = removed->executor(); watched != nullptr) {
      watched->remove_object();
      if (!watched->has_objects()) std::erase(executors_, watched);
    }
  }
  removed->remove();
}

void registry_core::throw_conflict(std::string_view name) {
  throw std::invalid_argument("gyre::metrics::registry: '" + std::string(name) +
                              "' exists with another type or other labels");
}

void registry_core::check(const instrument& candidate, std::span<const std::string> labels) {
  exposition trial(exposition_format::open_metrics);
  candidate.write(trial);
  std::vector<label> trial_labels;
  for (const std::string& each : labels) trial_labels.push_back({each, ""});
  if (!labels.empty()) trial.add_counter(candidate.name(), candidate.help(), 0U, trial_labels);
}

std::vector<std::shared_ptr<source>> registry_core::sources() {
  std::vector<std::shared_ptr<source>> copied;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, each] : sources_) copied.push_back(each);
  return copied;
}

std::vector<registry_core::group> registry_core::group_by_executor(
    std::span<const std::shared_ptr<source>> sources) {
  std::vector<group> groups;
  for (const std::shared_ptr<source>& each : sources) {
    if (each->executor() == nullptr) continue;
    auto match = std::ranges::find(groups, each->executor(), &group::executor);
    if (match == groups.end()) {
      groups.push_back({each->executor(), {}});
      match = groups.end() - 1;
    }
    match->sources.push_back(each);
  }
  return groups;
}

task<exposition> registry_core::collect(std::shared_ptr<registry_core> self,
                                        exposition_format format, duration limit) {
  const std::vector<std::shared_ptr<source>> sources = self->sources();
  const std::vector<group> groups = group_by_executor(sources);
  const auto gathered = std::make_shared<collection>(format);
  for (const group& each : groups) {
    const std::size_t number = gathered->begin_part();
    each.executor->run(reading(gathered, number, each.executor, each.sources));
  }

  exposition result(format);
  self->write_instruments(result);
  for (const std::shared_ptr<source>& each : sources) {
    if (!each->is_read_by_owner() && !each->read(result)) self->failed_reads_.add();
  }
  if (!gathered->close_list()) {
    auto waiting = as_expected(with_timeout(gathered->completed().wait(), limit));
    const auto waited = co_await std::move(waiting);
    if (!waited && waited.error() != std::errc::timed_out) throw std::system_error(waited.error());
  }

  const std::vector<std::optional<collection::part>> parts = gathered->take_parts();
  std::size_t unanswered = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::shared_ptr<source>& each : groups[i].sources) {
      if (each->is_executor()) each->write_responses(result, parts[i].has_value());
      if (each->is_read_by_owner() && !parts[i]) ++unanswered;
    }
    if (!parts[i]) continue;
    self->failed_reads_.add(parts[i]->failures);
    self->dropped_samples_.add(result.merge(parts[i]->samples));
  }
  self->write_own(result, sources.size(), unanswered);
  co_return result;
}

void registry_core::write_instruments(exposition& output) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, each] : instruments_) each->write(output);
}

void registry_core::write_own(exposition& output, std::size_t sources,
                              std::size_t unanswered_sources) {
  output.set_common_labels({});
  output.add_gauge("gyre_metrics_sources", "Objects in the registry of metrics.", sources);
  output.add_gauge("gyre_metrics_unanswered_sources",
                   "Objects whose loop has not responded in time.", unanswered_sources);
  output.add_counter("gyre_metrics_failed_reads_total",
                     "Reads of an object that have ended by an exception.", failed_reads_.value());
  output.add_counter("gyre_metrics_samples_dropped_total",
                     "Samples with the name and labels of another one.", dropped_samples_.value());
  output.add_counter("gyre_metrics_series_refused_total",
                     "Uses of label values beyond the limit of their family.",
                     refused_series_.value());
}

}  // namespace gyre::metrics::detail
