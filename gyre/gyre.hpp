// SPDX-License-Identifier: Apache-2.0
// All of gyre, for programs that would rather compile a little longer than choose headers. The
// headers that need an optional dependency (gyre/exec/inbox/boost_lockfree.hpp and
// moodycamel.hpp) are left out.
#pragma once
