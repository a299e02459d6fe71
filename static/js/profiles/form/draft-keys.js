// @ts-check
// Where an unsaved form waits in this tab on its way from one page to another.

export const CARRIED = "draft-carried";
