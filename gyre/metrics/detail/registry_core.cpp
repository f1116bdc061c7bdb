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
  executor* const own_executor = settings.owner != nullptr ? settings.owner : settings.self;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, registered_source] : sources_) {
    if (!settings.name.empty() && registered_source->name() == settings.name &&
        registered_source->type() == settings.type) {
      throw std::invalid_argument("gyre::metrics::registry: two objects of one type are named '" +
                                  settings.name + "'");
    }
  }
  std::shared_ptr<watched_executor> executor_entry;
  if (own_executor != nullptr) {
    const auto match = std::ranges::find_if(
        executors_, [own_executor](const auto& entry) { return entry->is(*own_executor); });
    executor_entry =
        match != executors_.end() ? *match : std::make_shared<watched_executor>(*own_executor);
    if (match == executors_.end()) executors_.push_back(executor_entry);
  }
  auto new_source = std::make_shared<source>(std::move(settings), executor_entry);
  sources_.emplace(++last_id_, std::move(new_source));
  if (executor_entry != nullptr) executor_entry->add_object();
  return last_id_;
}

void registry_core::remove(std::uint64_t number) noexcept {
  std::shared_ptr<source> old_source;
  {
    const std::lock_guard lock(mutex_);
    const auto match = sources_.find(number);
    if (match == sources_.end()) return;
    old_source = std::move(match->second);
    sources_.erase(match);
    if (const auto& executor_entry = old_source->executor(); executor_entry != nullptr) {
      executor_entry->remove_object();
      if (!executor_entry->has_objects()) std::erase(executors_, executor_entry);
    }
  }
  old_source->remove();
}

void registry_core::throw_conflict(std::string_view name) {
  throw std::invalid_argument("gyre::metrics::registry: '" + std::string(name) +
                              "' exists with another type or other labels");
}

void registry_core::check(const instrument& candidate, std::span<const std::string> labels) {
  exposition trial_exposition(exposition_format::open_metrics);
  candidate.write(trial_exposition);
  std::vector<label> trial_labels;
  for (const std::string& name : labels) trial_labels.push_back({name, ""});
  if (!labels.empty())
    trial_exposition.add_counter(candidate.name(), candidate.help(), 0U, trial_labels);
}

std::vector<std::shared_ptr<source>> registry_core::sources() {
  std::vector<std::shared_ptr<source>> result;
  const std::lock_guard lock(mutex_);
  for (const auto& [number, entry] : sources_) result.push_back(entry);
  return result;
}

std::vector<registry_core::group> registry_core::group_by_executor(
    std::span<const std::shared_ptr<source>> sources) {
  std::vector<group> groups;
  for (const std::shared_ptr<source>& source : sources) {
    if (source->executor() == nullptr) continue;
    auto match = std::ranges::find(groups, source->executor(), &group::executor);
    if (match == groups.end()) {
      groups.push_back({source->executor(), {}});
      match = groups.end() - 1;
    }
    match->sources.push_back(source);
  }
  return groups;
}

task<exposition> registry_core::collect(std::shared_ptr<registry_core> self,
                                        exposition_format format, duration limit) {
  const std::vector<std::shared_ptr<source>> sources = self->sources();
  const std::vector<group> groups = group_by_executor(sources);
  const auto pending_collection = std::make_shared<collection>(format);
  for (const group& executor_group : groups) {
    const std::size_t number = pending_collection->begin_part();
    executor_group.executor->run(
        reading(pending_collection, number, executor_group.executor, executor_group.sources));
  }

  exposition result(format);
  self->write_instruments(result);
  for (const std::shared_ptr<source>& source : sources) {
    if (!source->is_read_by_owner() && !source->read(result)) self->failed_reads_.add();
  }
  if (!pending_collection->close_list()) {
    auto wait = as_expected(with_timeout(pending_collection->completed().wait(), limit));
    const auto end = co_await std::move(wait);
    if (!end && end.error() != std::errc::timed_out) throw std::system_error(end.error());
  }

  const std::vector<std::optional<collection::part>> parts = pending_collection->take_parts();
  std::size_t missing_sources = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::shared_ptr<source>& source : groups[i].sources) {
      if (source->is_executor()) source->write_responses(result, parts[i].has_value());
      if (source->is_read_by_owner() && !parts[i]) ++missing_sources;
    }
    if (!parts[i]) continue;
    self->failed_reads_.add(parts[i]->failures);
    self->dropped_samples_.add(result.merge(parts[i]->samples));
  }
  self->write_own(result, sources.size(), missing_sources);
  co_return result;
}

void registry_core::write_instruments(exposition& output) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, instrument] : instruments_) instrument->write(output);
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
