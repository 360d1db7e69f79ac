// The parts of Preact that the page uses, from one place, so that a new version is one import away.
export {
  html, render, useState, useEffect, useLayoutEffect, useMemo, useRef, useReducer, useCallback,
} from "../vendor/htm-preact.js";
