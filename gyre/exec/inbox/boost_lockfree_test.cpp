// SPDX-License-Identifier: Apache-2.0
#include <gyre/exec/inbox/boost_lockfree.hpp>

#include <gyre/exec/inbox/inbox_stress_test_suite.hpp>
#include <gyre/exec/inbox/inbox_test_suite.hpp>

// Boost reads the link of a node that another thread may have freed or taken meanwhile, and drops
// the value unless its tagged compare-and-swap succeeds. The free list's access is not atomic,
// which ThreadSanitizer reports; the suppression covers only that.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:boost/lockfree/detail/freelist.hpp\n";  // inlined functions have no full names here
}

namespace gyre::inbox::suite {

template <>
inline constexpr bool counts_pending<boost_lockfree> = false;

using boost_lockfree_inboxes = ::testing::Types<boost_lockfree>;
INSTANTIATE_TYPED_TEST_SUITE_P(boost_lockfree, InboxSuite, boost_lockfree_inboxes);
INSTANTIATE_TYPED_TEST_SUITE_P(boost_lockfree, InboxStressSuite, boost_lockfree_inboxes);

static_assert(boost_lockfree::order == ordering::total);

}  // namespace gyre::inbox::suite
