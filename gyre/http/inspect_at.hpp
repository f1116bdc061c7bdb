// SPDX-License-Identifier: Apache-2.0
// inspect_at: the inspector of a runtime.
//
//     gyre::runtime rt({.inspect = gyre::http::inspect_at("unix:/run/shop/inspect")});
#pragma once

#include <gyre/base/move_only_function.hpp>
#include <gyre/http/inspector.hpp>
#include <gyre/http/inspector_options.hpp>
#include <gyre/metrics/inspection.hpp>
#include <gyre/net/endpoint.hpp>

namespace gyre::http {

/// Returns the value of runtime_options::inspect with which the runtime has an inspector of its
/// loops, its pool and all else that its registry has.
///
/// `prepare` is called with the inspector before it begins to respond, to add pages, and to keep a
/// pointer to it, by which the program shows its connections: the inspector lives until the tasks
/// of the runtime have ended.
///
/// Errors: the runtime's constructor throws what inspector and `prepare` throw.
metrics::inspection_factory inspect_at(net::endpoint address, inspector_options options = {},
                                       move_only_function<void(inspector&)> prepare = {});

}  // namespace gyre::http
