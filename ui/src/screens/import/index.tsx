import { Screen } from '../../components/Screen'

export default function Import() {
  return (
    <Screen title="Import">
      <p className="hb-muted">Paste a crontab or a jobs file, see the plan, apply it.</p>
    </Screen>
  )
}
