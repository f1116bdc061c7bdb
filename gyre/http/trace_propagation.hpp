// SPDX-License-Identifier: Apache-2.0
// trace_propagation: passes the trace of a request on to the requests that its handler sends.
//
//     server.use(gyre::http::trace_propagation());
//     gyre::http::client backend(loop, {.sends_trace = true});
#pragma once

#include <gyre/http/handler.hpp>
#include <gyre/http/request.hpp>
#include <gyre/http/response.hpp>
#include <gyre/http/trace_parent.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/task_local.hpp>

#include <optional>
#include <string>

namespace gyre::http {

/// The trace of the request that a handler serves.
struct current_trace {
  trace_parent parent;
  /// The value of the request's field `tracestate`, which is passed on as it is; empty if there is
  /// none or it exceeds 512 bytes, as the standard allows.
  std::string state = {};
};

/// The trace for the handler and the coroutines below it, while trace_propagation is in use; see
/// task_local.
extern const task_local<std::optional<current_trace>> task_trace;

/// A middleware that makes the trace of a request the value of task_trace: that of its field
/// `traceparent`, or a new one, which is not sampled. Clients with client_options::sends_trace send
/// it on, with the id of their own request.
///
/// Thread-safety: any thread.
/// Complexity: a coroutine frame, and for a request without a trace two system calls for random
/// numbers.
class trace_propagation {
 public:
  task<response> operator()(request& request, next_handler next) const;
};

}  // namespace gyre::http
