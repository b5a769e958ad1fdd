// Package top shows what the admin listeners of gateways know: live on a terminal, as lines of text, or as JSON. It can
// change limits, after a question.
//
// Several gateways are shown as one: figures of the same pool and key are added. A gateway that doesn't answer is
// said to be away, and since when; its figures are not in the sums of the others.
//
// Names come from clients, so they can hold anything. No name reaches a terminal but through shown, which leaves no
// character that moves a cursor, changes a direction, or is as wide as each terminal likes.
package top
