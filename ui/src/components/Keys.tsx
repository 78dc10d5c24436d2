/** A shortcut as keys: "Ctrl+k" as Ctrl K, "g j" as g j. */
export function Keys({ keys }: { keys: string }) {
  return (
    <span className="hb-keys">
      {keys.split(' ').map((key, index) => (
        <kbd key={index}>{key.replace(/^Ctrl\+(.)/, (_, letter: string) => `Ctrl ${letter.toUpperCase()}`)}</kbd>
      ))}
    </span>
  )
}
