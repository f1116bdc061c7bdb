// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/trace_propagation.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/fields.hpp>

#include <cstddef>
#include <string_view>
#include <utility>

namespace gyre::http {
namespace {

constexpr std::size_t max_state = 512;

// Joins the values of all fields `tracestate`, among which the list may be divided.
std::string trace_state_of(const request& request) {
  std::string state;
  for (const field& field : request.fields()) {
    if (!detail::equals_lower(field.name, "tracestate") || field.value.empty()) continue;
    if (!state.empty()) state += ',';
    state += field.value;
    if (state.size() > max_state) return {};
  }
  return state;
}

}  // namespace

constinit const task_local<std::optional<current_trace>> task_trace;

task<response> trace_propagation::operator()(request& request, next_handler next) const {
  const std::optional<trace_parent> parent = request.trace_parent();
  std::optional<current_trace> trace(std::in_place, parent ? *parent : trace_parent::make());
  if (parent) trace->state = trace_state_of(request);
  auto handle_task = task_trace.with(std::move(trace), next(request));
  co_return co_await std::move(handle_task);
}

}  // namespace gyre::http
