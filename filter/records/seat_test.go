package records

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate/headgate/admission"
)

// Ticket numbers wrap round, and none is 0: that means no ticket.
func TestTicketNumbersAreNeverZero(t *testing.T) {
	s := seat{ticket: math.MaxUint32 - 1}
	require.Equal(t, uint32(math.MaxUint32), s.nextTicket())
	require.Equal(t, uint32(1), s.nextTicket())
	require.Equal(t, uint32(2), s.nextTicket())
}

// A line that requests can provoke is logged once a minute.
func TestComplaintsAreBounded(t *testing.T) {
	var s seat
	start := int64(admission.Second)
	require.True(t, s.mayComplain(start))
	require.False(t, s.mayComplain(start))
	require.False(t, s.mayComplain(start+int64(admission.Minute)-1))
	require.True(t, s.mayComplain(start+int64(admission.Minute)))
	require.False(t, s.mayComplain(start+int64(admission.Minute)+1))
}
